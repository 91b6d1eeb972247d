{{/* What values.schema.json cannot say. Each refusal names the value and the remedy. */}}

{{- define "penstock.check" -}}
{{- $pools := include "penstock.pools" . | fromJsonArray -}}
{{- $controllers := list -}}
{{- $taken := dict -}}
{{- $brokers := 0 -}}
{{- range $pool := $pools -}}
{{- if $pool.isController -}}{{- $controllers = append $controllers $pool.name -}}
{{- if gt (int $pool.replicas) 9 -}}{{- fail (printf "pools.%s.replicas is %d: a quorum has 9 controllers at most; let more nodes be brokers of a pool of their own" $pool.name (int $pool.replicas)) -}}{{- end -}}
{{- end -}}
{{- if $pool.isBroker -}}{{- $brokers = add $brokers $pool.replicas -}}{{- end -}}
{{- range $id := $pool.ids -}}
{{- if hasKey $taken (toString $id) -}}{{- fail (printf "pools.%s.firstNodeId: pool %s has node %d, too; give each pool ids of its own" $pool.name (get $taken (toString $id)) (int $id)) -}}{{- end -}}
{{- $_ := set $taken (toString $id) $pool.name -}}
{{- end -}}
{{- if and $pool.isBroker $.Values.rackFromZone (not $pool.rack) (semverCompare "<1.35.0-0" $.Capabilities.KubeVersion.Version) -}}
{{- fail (printf "rackFromZone needs Kubernetes 1.35, and this is %s: set rackFromZone to false, or pools.%s.rack and a nodeSelector" $.Capabilities.KubeVersion.Version $pool.name) -}}
{{- end -}}
{{- end -}}
{{- if ne (len $controllers) 1 -}}
{{- fail (printf "pools: exactly one pool with nodes has the role controller, and here are %d: %s" (len $controllers) (join ", " $controllers)) -}}
{{- end -}}
{{- if eq (int $brokers) 0 -}}{{- fail "pools: no pool with nodes has the role broker" -}}{{- end -}}
{{- if .Values.security.enabled -}}
{{- $tls := .Values.security.tls -}}
{{- if and (not $tls.secretName) (not $tls.certManager.issuer) -}}
{{- fail "security.tls: give secretName, a Secret with ca.pem and node-ID.pem for each node, or certManager.issuer" -}}
{{- end -}}
{{- if and $tls.secretName $tls.certManager.issuer -}}
{{- fail "security.tls: secretName and certManager.issuer are two ways to get certificates; give one" -}}
{{- end -}}
{{- else if .Values.users -}}
{{- fail "users: nobody is asked to log in without security.enabled" -}}
{{- end -}}
{{- range $listener := .Values.outside.listeners -}}
{{- if and (eq $.Values.outside.type "NodePort") (not $listener.nodePort) -}}
{{- fail (printf "outside.listeners: %s has no nodePort, and outside.type is NodePort" $listener.name) -}}
{{- end -}}
{{- end -}}
{{- if .Values.clusterId -}}
{{- $name := printf "%s-cluster" (include "penstock.fullname" .) -}}
{{- $found := lookup "v1" "ConfigMap" .Release.Namespace $name -}}
{{- if $found -}}
{{- if ne (get $found.data "cluster-id") .Values.clusterId -}}
{{- fail (printf "clusterId is %s, and this release runs with %s: a cluster keeps its id for ever" .Values.clusterId (get $found.data "cluster-id")) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Ids of brokers that this upgrade takes away, as JSON: what the StatefulSets in the cluster have and the values do not. */}}
{{- define "penstock.goneBrokers" -}}
{{- $gone := list -}}
{{- range $id := .Values.scaling.gone -}}{{- $gone = append $gone (int $id) -}}{{- end -}}
{{- if not $gone -}}
{{- range $name, $pool := .Values.pools -}}
{{- $found := lookup "apps/v1" "StatefulSet" $.Release.Namespace (printf "%s-%s" (include "penstock.fullname" $) $name) -}}
{{- if and $found (has "broker" $pool.roles) -}}
{{- $has := int $found.spec.replicas -}}
{{- if gt $has (int $pool.replicas) -}}
{{- if and (has "controller" $pool.roles) -}}
{{- fail (printf "pools.%s.replicas: these nodes are controllers, too; take their votes first, and name the brokers in scaling.gone: docs/kubernetes.md, Fewer controllers" $name) -}}
{{- end -}}
{{- range $at := untilStep (int $pool.replicas) $has 1 -}}{{- $gone = append $gone (int (add (int $pool.firstNodeId) $at)) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $gone -}}
{{- end }}

{{/* Ids of brokers that this upgrade brings, as JSON. */}}
{{- define "penstock.newBrokers" -}}
{{- $new := list -}}
{{- range $id := .Values.scaling.new -}}{{- $new = append $new (int $id) -}}{{- end -}}
{{- if not $new -}}
{{- range $pool := include "penstock.pools" . | fromJsonArray -}}
{{- $found := lookup "apps/v1" "StatefulSet" $.Release.Namespace $pool.fullname -}}
{{- if and $.Release.IsUpgrade $pool.isBroker (lookup "v1" "ConfigMap" $.Release.Namespace (printf "%s-cluster" (include "penstock.fullname" $))) -}}
{{- $has := 0 -}}
{{- if $found -}}{{- $has = int $found.spec.replicas -}}{{- end -}}
{{- range $at := untilStep $has (int $pool.replicas) 1 -}}{{- $new = append $new (int (add (int $pool.firstNodeId) $at)) -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $new -}}
{{- end }}
