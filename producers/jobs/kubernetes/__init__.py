"""What the agent speaks of Kubernetes' APIs on a node, over gRPC: the kubelet's pod-resources and the CRI."""
