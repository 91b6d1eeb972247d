{{/* The node's configuration files: what all nodes of a pool have, and the lines of one node. */}}

{{/* The listeners of a pool, as JSON: name, port, and the port that is advertised to clients outside. Given: root, pool. */}}
{{- define "penstock.listeners" -}}
{{- $found := list -}}
{{- if .pool.isBroker -}}
{{- $found = append $found (dict "name" "BROKER" "port" 9192 "security" "SASL_SSL") -}}
{{- if .root.Values.kafkaListener -}}{{- $found = append $found (dict "name" "KAFKA" "port" 9092 "security" "SASL_SSL") -}}{{- end -}}
{{- range $one := .root.Values.outside.listeners -}}
{{- $found = append $found (dict "name" $one.name "port" $one.port "security" "SASL_SSL" "outside" true "protocol" $one.protocol "nodePort" $one.nodePort) -}}
{{- end -}}
{{- $found = append $found (dict "name" "INTERNAL" "port" 9194 "security" "SSL") -}}
{{- end -}}
{{- if .pool.isController -}}
{{- $found = append $found (dict "name" "CONTROLLER" "port" 9193 "security" "SSL") -}}
{{- end -}}
{{- toJson $found -}}
{{- end }}

{{/* Given: root, pool. */}}
{{- define "penstock.poolConfig" -}}
{{- $values := .root.Values -}}
process.roles = {{ toJson .pool.roles }}
{{- $listeners := include "penstock.listeners" . | fromJsonArray }}
{{- $texts := list }}
{{- range $listeners }}{{ $texts = append $texts (printf "%s://%s:%d" .name $values.bindAddress (int .port)) }}{{ end }}
listeners = {{ toJson $texts }}
{{- $kafka := list }}
{{- range $values.outside.listeners }}{{ if eq .protocol "KAFKA" }}{{ $kafka = append $kafka (printf "%s:KAFKA" .name) }}{{ end }}{{ end }}
{{- if and $kafka .pool.isBroker }}
listener.type.map = {{ prepend $kafka "KAFKA:KAFKA" | toJson }}
{{- end }}
controller.quorum.bootstrap.servers = {{ include "penstock.servers" (dict "root" .root "role" "isController" "port" 9193) | splitList "," | toJson }}
{{- if .pool.isController }}
controller.quorum.auto.join.enable = true
{{- end }}
log.dirs = ["/var/lib/penstock/data"]
metrics.listener = {{ printf "%s:9404" $values.bindAddress | quote }}
{{- if .pool.rack }}
broker.rack = {{ .pool.rack | quote }}
{{- end }}
{{- $brokers := 0 }}
{{- range $node := include "penstock.nodes" .root | fromJsonArray }}{{ if $node.isBroker }}{{ $brokers = add1 $brokers }}{{ end }}{{ end }}
{{- $config := .pool.config }}
{{- if not (hasKey $config "default.replication.factor") }}
default.replication.factor = {{ min 3 $brokers }}
{{- end }}
{{- if not (hasKey $config "min.insync.replicas") }}
min.insync.replicas = {{ ternary 2 1 (ge (int $brokers) 3) }}
{{- end }}
{{- if $values.security.enabled }}
{{- $map := list }}
{{- range $listeners }}{{ $map = append $map (printf "%s:%s" .name .security) }}{{ end }}
{{- if not .pool.isController }}{{ $map = append $map "CONTROLLER:SSL" }}{{ end }}
listener.security.protocol.map = {{ append $map "METRICS:SSL" | toJson }}
ssl.truststore.location = "/etc/penstock/tls/ca.pem"
authorizer.class.name = "StandardAuthorizer"
super.users = {{ printf "User:%s" $values.security.admin.username | quote }}
{{- end }}
{{- range $key, $value := $config }}
{{ $key }} = {{ toJson $value }}
{{- end }}
{{- end }}

{{/* Given: root, pool, node. */}}
{{- define "penstock.nodeConfig" -}}
{{- $texts := list -}}
{{- range $listener := include "penstock.listeners" . | fromJsonArray -}}
{{- $host := $.node.host -}}
{{- $port := $listener.port -}}
{{- if $listener.outside -}}
{{- $host = include "penstock.outsideHost" $ -}}
{{- if eq $.root.Values.outside.type "NodePort" -}}{{- $port = add $listener.nodePort $.node.id -}}{{- end -}}
{{- end -}}
{{- $texts = append $texts (printf "%s://%s:%d" $listener.name $host (int $port)) -}}
{{- end -}}
node.id = {{ .node.id }}
advertised.listeners = {{ toJson $texts }}
{{- if .root.Values.security.enabled }}
ssl.keystore.location = "/etc/penstock/tls/node-{{ .node.id }}.pem"
{{- end }}
{{- end }}
