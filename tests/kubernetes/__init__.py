"""The Helm chart and the manifests of ops/kubernetes: what helm and the schemas of Kubernetes say of them."""
