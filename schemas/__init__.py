"""The contract: one `.proto` a topic, the code made from it, the topic table and the metric table."""
