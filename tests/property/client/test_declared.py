"""A plan that was done leaves nothing to do, wherever it was interrupted; an export says what there is."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from penstock.declared.plan import Act, PlanOptions, plan_apply
from penstock.declared.reading import read_declared
from penstock.declared.state import DeclaredKind, DeclaredState
from penstock.declared.writing import write_declared
from tests.support.declared import after, clusters, without_passwords

PRUNES = st.frozensets(st.sampled_from(DeclaredKind))


@given(clusters())
def test_what_is_exported_is_read_as_it_was(found: DeclaredState) -> None:
    assert read_declared("f", write_declared(found).encode()) == found


@given(clusters())
def test_nothing_is_to_do_where_an_export_is_applied(found: DeclaredState) -> None:
    """With everything pruned, too: an export names all there is."""
    written = without_passwords(found)
    exported = read_declared("f", write_declared(written).encode())
    assert plan_apply(exported, written, PlanOptions(frozenset(DeclaredKind))).is_empty


@given(clusters(), clusters(), PRUNES, st.integers(0, 20))
def test_twice_is_once_and_an_interrupted_plan_goes_on(
    wanted: DeclaredState, found: DeclaredState, prune: frozenset[DeclaredKind], interrupted: int
) -> None:
    options, found = PlanOptions(prune), without_passwords(found)
    plan = plan_apply(wanted, found, options)
    done = after(found, plan)
    again = plan_apply(wanted, done, options)
    assert not again.steps and again.impossible == plan.impossible
    halfway = after(found, plan, interrupted)
    assert after(halfway, plan_apply(wanted, halfway, options)) == done


@given(clusters(), clusters())
def test_everything_pruned_a_cluster_is_as_the_file_says_but_for_what_cannot_be(
    wanted: DeclaredState, found: DeclaredState
) -> None:
    found = without_passwords(found)
    kept = {name: topic for name, topic in wanted.topics.items() if name not in found.topics}
    wanted = replace(wanted, topics=kept)
    plan = plan_apply(wanted, found, PlanOptions(frozenset(DeclaredKind)))
    done = after(found, plan)
    assert not plan.impossible
    assert (done.topics, done.acls, done.quotas) == (wanted.topics, wanted.acls, wanted.quotas)
    assert done.users == without_passwords(wanted).users
    assert {id_: done.configs[id_] for id_ in wanted.configs} == wanted.configs


@given(clusters(), clusters())
def test_nothing_goes_that_is_not_pruned(wanted: DeclaredState, found: DeclaredState) -> None:
    plan = plan_apply(wanted, without_passwords(found))
    assert not any(step.act is Act.DELETE for step in plan.steps)
