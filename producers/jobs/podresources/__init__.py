"""The kubelet's pod-resources API, as far as the agent speaks it; `make proto` makes the code."""
