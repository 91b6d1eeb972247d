"""Principals of certificates: the name as Java writes it, and Kafka's rules over it."""

from __future__ import annotations

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from broker.tls.principals import PrincipalRules, distinguished_name, owner_of
from penstock.certs.node_identity import NodeIdentity
from penstock.errors import ConfigError
from tests.support.certificates import CLUSTER, TestCa

DN = "CN=kafka-1,OU=Service Users,O=Org,L=Zug,C=CH"
CA = TestCa()


def dn_of(*rdns: list[tuple[x509.ObjectIdentifier, str]]) -> str:
    subject = x509.Name(
        [x509.RelativeDistinguishedName([x509.NameAttribute(oid, value) for oid, value in rdn]) for rdn in rdns]
    )
    return owner_of(CA.leaf(subject).partition(b"-----END PRIVATE KEY-----\n")[2])[0]


def test_a_name_is_written_from_its_end_with_the_words_of_rfc_2253() -> None:
    assert (
        dn_of(
            [(NameOID.COUNTRY_NAME, "CH")],
            [(NameOID.STATE_OR_PROVINCE_NAME, "Zug")],
            [(NameOID.DOMAIN_COMPONENT, "example")],
            [(NameOID.ORGANIZATION_NAME, "Müller & Co")],
            [(NameOID.USER_ID, "u1")],
            [(NameOID.COMMON_NAME, "anna")],
        )
        == "CN=anna,UID=u1,O=Müller & Co,DC=example,ST=Zug,C=CH"
    )


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("a,b", r"CN=a\,b"),
        ('a"b', r"CN=a\"b"),
        ("a\\b", r"CN=a\\b"),
        ("a<b>c;d+e=f", r"CN=a\<b\>c\;d\+e\=f"),
        ("#a", r"CN=\#a"),
        (" a  b ", r"CN=\ a  b\ "),
        ("a,O=Other", r"CN=a\,O\=Other"),
    ],
)
def test_what_could_be_taken_for_another_name_is_escaped(value: str, written: str) -> None:
    assert dn_of([(NameOID.COMMON_NAME, value)]) == written


def test_other_attributes_are_numbers_and_bytes_as_in_java() -> None:
    mail = [(NameOID.EMAIL_ADDRESS, "a@b.ch")]
    assert dn_of(mail, [(NameOID.COMMON_NAME, "a")]) == "CN=a,1.2.840.113549.1.9.1=#1606614062" + "2e6368"
    long = "x" * 60
    assert dn_of([(NameOID.TITLE, long)]) == "2.5.4.12=#0c3c" + long.encode().hex()


def test_several_attributes_of_one_part_have_a_plus_between() -> None:
    found = dn_of([(NameOID.COMMON_NAME, "a"), (NameOID.USER_ID, "b")])
    assert sorted(found.split("+")) == ["CN=a", "UID=b"]


def test_the_owner_of_a_nodes_certificate_is_a_node_and_nobody_else_is() -> None:
    assert owner_of(_certificate(CA.node(3)))[:2] == ("CN=node-3", NodeIdentity(CLUSTER, 3))
    assert owner_of(_certificate(CA.client("anna")))[:2] == ("CN=anna", None)
    two = [x509.UniformResourceIdentifier(NodeIdentity(CLUSTER, node).uri) for node in (1, 2)]
    assert owner_of(_certificate(CA.leaf("both", two)))[:2] == ("CN=both", None)
    other = [x509.UniformResourceIdentifier("https://example.com"), two[0]]
    assert owner_of(_certificate(CA.leaf("one", other)))[1] == NodeIdentity(CLUSTER, 1)


def _certificate(keystore: bytes) -> bytes:
    return keystore.partition(b"-----END PRIVATE KEY-----\n")[2]


@pytest.mark.parametrize(
    ("rules", "name", "principal"),
    [
        ("DEFAULT", DN, f"User:{DN}"),
        ("", DN, f"User:{DN}"),
        ("RULE:^CN=(.*?),OU=Service Users.*$/$1/", DN, "User:kafka-1"),
        ("RULE:^CN=(.*?),OU=Service Users.*$/$1/U", DN, "User:KAFKA-1"),
        ("RULE:^CN=(.*?),OU=(.*?),.*$/$2@$1/L", DN, "User:service users@kafka-1"),
        ("RULE:^CN=(.*?),OU=Others.*$/$1/,DEFAULT", DN, f"User:{DN}"),
        ("RULE:^CN=(.*?),OU=Others.*$/$1/ , RULE:^CN=(.*?),.*$/$1/", DN, "User:kafka-1"),
        ("RULE:^CN=(.*?),OU=Others.*$/$1/", DN, None),
        ("RULE:CN=kafka/x/", DN, None),  # the whole name must match
        ("RULE:^.*$/all/,DEFAULT", DN, "User:all"),
        (r"RULE:^CN=a\/b$/c\/d/", "CN=a/b", "User:c/d"),
        ("RULE:^CN=(.*)$/$10/", "CN=a", "User:a0"),
        ("RULE:^CN=(.*)$/$01/", "CN=a", "User:a"),
        ("RULE:^CN=(.*)$/$0/", "CN=a", "User:CN=a"),
        ("RULE:^CN=(?<user>.*),OU=(?<unit>.*)$/${unit}.${user}/", "CN=a,OU=b", "User:b.a"),
        ("RULE:^CN=(?<user>.*)$/${user}${user}$1/U", "CN=a", "User:AAA"),
        (f"RULE:^CN={'(.)' * 11}$/$11-$110-$12/", "CN=abcdefghijk", "User:k-k0-a2"),
        (r"RULE:^CN=(.*)$/\\$1\x\${user}/", "CN=a", r"User:\ax${user}"),
        (r"RULE:^CN=(.*)$/\$1/", "CN=a", "User:$1"),
        ("RULE:^CN=(a)?(b)$/$1$2/", "CN=b", "User:b"),
    ],
)
def test_the_first_rule_that_fits_makes_the_principal(rules: str, name: str, principal: str | None) -> None:
    assert PrincipalRules(rules).of(name) == principal


@pytest.mark.parametrize(
    ("rules", "says"),
    [
        ("default", "must be DEFAULT or RULE:pattern/replacement/"),
        ("RULE:a/b", "must be DEFAULT or RULE:"),
        ("RULE:a/b/X", "must be DEFAULT or RULE:"),
        ("DEFAULT RULE:a/b/", "must be DEFAULT or RULE:"),
        ("RULE:(/b/", "is no regular expression of RE2"),
        ("RULE:(?=a)/b/", "is no regular expression of RE2"),
        ("DEFAULT,nonsense", "'nonsense'"),
        ("RULE:^CN=(.*)$/${user}/", "its pattern has no group (?<user>…)"),
        ("RULE:^CN=(?<user>.*)$/${User}/", "its pattern has no group (?<User>…)"),
        ("RULE:^CN=(.*)$/${}/", "$1 and ${name} are groups"),
        ("RULE:^CN=(.*)$/${1}/", "$1 and ${name} are groups"),
        ("RULE:^CN=(.*)$/${user/", r"write \$ for the character $"),
        ("RULE:^CN=(.*)$/$/", r"write \$ for the character $"),
        ("RULE:^CN=(.*)$/$user/", r"write \$ for the character $"),
        ("RULE:^CN=(.*)$/$9$1/", "its pattern has no group 9, but 1 in all"),
        ("RULE:^CN=.*$/$1/", "its pattern has no group 1, but 0 in all"),
    ],
)
def test_rules_that_cannot_be_read_are_refused(rules: str, says: str) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules") as caught:
        PrincipalRules(rules)
    assert says in str(caught.value)


def test_a_long_name_takes_little_time() -> None:
    """A backtracking library would not come back from this."""
    assert PrincipalRules("RULE:^(x+x+)+y$/$1/").of("x" * 50_000) is None


def test_a_certificate_is_read_from_both_forms() -> None:
    pem = _certificate(CA.client("anna"))
    der = x509.load_pem_x509_certificate(pem).public_bytes(Encoding.DER)
    assert owner_of(der) == owner_of(pem) and distinguished_name(x509.load_der_x509_certificate(der)) == "CN=anna"


@pytest.mark.parametrize(
    "rules", ["RULE:^CN=.*$/ANONYMOUS/", "RULE:^CN=(.*)$/$1/", "RULE:^CN=(.*)$/anonymous/,DEFAULT"]
)
def test_no_rule_makes_of_a_certificate_whoever_has_shown_none(rules: str) -> None:
    assert PrincipalRules(rules).of("CN=ANONYMOUS") == ("User:anonymous" if "anonymous" in rules else None)
