{{/* Names, labels, and the nodes of the release. */}}

{{- define "penstock.fullname" -}}
{{- default .Release.Name .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- define "penstock.selector" -}}
app.kubernetes.io/name: penstock
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "penstock.labels" -}}
{{ include "penstock.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "penstock.clusterId" -}}
{{- .Values.clusterId | default (printf "%s/%s" .Release.Namespace (include "penstock.fullname" .) | sha256sum | trunc 22) -}}
{{- end }}

{{- define "penstock.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* Where clients begin. The whole name, because short ones may end in .penstock: so end those by which nodes know each other. */}}
{{- define "penstock.service" -}}
{{ include "penstock.fullname" . }}.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}
{{- end }}

{{/* The domain in which each pod has a name: that of the headless Service. */}}
{{- define "penstock.domain" -}}
{{ include "penstock.fullname" . }}-nodes.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}
{{- end }}

{{/* The pools that have nodes, as JSON: each with its name, its StatefulSet's name and its ids. */}}
{{- define "penstock.pools" -}}
{{- $pools := list -}}
{{- range $name, $given := .Values.pools -}}
{{- $pool := mergeOverwrite (deepCopy $.Values.poolDefaults) (deepCopy $given) -}}
{{- if gt (int $pool.replicas) 0 -}}
{{- $ids := list -}}
{{- range $at := until (int $pool.replicas) -}}{{- $ids = append $ids (add (int $pool.firstNodeId) $at) -}}{{- end -}}
{{- $_ := set $pool "config" (mergeOverwrite (deepCopy $.Values.config) (deepCopy ($given.config | default dict))) -}}
{{- $_ := set $pool "name" $name -}}
{{- $_ := set $pool "fullname" (printf "%s-%s" (include "penstock.fullname" $) $name) -}}
{{- $_ := set $pool "ids" $ids -}}
{{- $_ := set $pool "isBroker" (has "broker" $pool.roles) -}}
{{- $_ := set $pool "isController" (has "controller" $pool.roles) -}}
{{- $pools = append $pools $pool -}}
{{- end -}}
{{- end -}}
{{- toJson $pools -}}
{{- end }}

{{/* The nodes, as JSON: id, pod, host, isBroker, isController. */}}
{{- define "penstock.nodes" -}}
{{- $nodes := list -}}
{{- range $pool := include "penstock.pools" . | fromJsonArray -}}
{{- range $id := $pool.ids -}}
{{- $pod := printf "%s-%d" $pool.fullname (int $id) -}}
{{- $host := printf "%s.%s" $pod (include "penstock.domain" $) -}}
{{- $nodes = append $nodes (dict "id" (int $id) "pod" $pod "host" $host "isBroker" $pool.isBroker "isController" $pool.isController) -}}
{{- end -}}
{{- end -}}
{{- toJson $nodes -}}
{{- end }}

{{/* host:port,… of all nodes with a role. Given: root, role (isBroker or isController), port. */}}
{{- define "penstock.servers" -}}
{{- $servers := list -}}
{{- range $node := include "penstock.nodes" .root | fromJsonArray -}}
{{- if get $node $.role -}}{{- $servers = append $servers (printf "%s:%d" $node.host (int $.port)) -}}{{- end -}}
{{- end -}}
{{- join "," $servers -}}
{{- end }}

{{/* The address of one broker for clients outside. Given: root, node. */}}
{{- define "penstock.outsideHost" -}}
{{- $outside := .root.Values.outside -}}
{{- if hasKey $outside.hosts (toString .node.id) -}}
{{- get $outside.hosts (toString .node.id) -}}
{{- else if $outside.domain -}}
{{- printf "%s.%s" .node.pod $outside.domain -}}
{{- else -}}
{{- fail (printf "outside: node %d has no address there; give outside.domain, or outside.hosts a name or an address for \"%d\"" (int .node.id) (int .node.id)) -}}
{{- end -}}
{{- end }}

{{/* The names of one node in its certificate, one a line. Given: root, node. */}}
{{- define "penstock.certificateNames" -}}
{{- $service := include "penstock.fullname" .root }}
{{- $namespace := .root.Release.Namespace }}
- {{ .node.host }}
- {{ .node.pod }}.{{ $service }}-nodes.{{ $namespace }}.svc
- {{ include "penstock.service" .root }}
- {{ $service }}.{{ $namespace }}.svc
- localhost
- node-{{ .node.id }}.{{ include "penstock.clusterId" .root | lower }}.penstock
{{- end }}
