#!/bin/sh
# As a user who may alter the cluster, with its login in client.properties (docs/deploy/kafka.md);
# `warpmeter acls --print` prints the same for your prefix, groups and principals.
set -e

# agent
kafka-acls.sh --bootstrap-server kafka-1:9093 --command-config client.properties --add --allow-principal User:agent --operation Describe --group warpmeter-agent
kafka-acls.sh --bootstrap-server kafka-1:9093 --command-config client.properties --add --allow-principal User:agent --operation Read --topic warpmeter.capture-commands
kafka-acls.sh --bootstrap-server kafka-1:9093 --command-config client.properties --add --allow-principal User:agent --operation Write --topic warpmeter.capture-events --topic warpmeter.device-samples --topic warpmeter.gpu-events --topic warpmeter.gpu-processes --topic warpmeter.gpu-samples --topic warpmeter.host-samples --topic warpmeter.job-events --topic warpmeter.metric-samples --topic warpmeter.source-health --topic warpmeter.stack-samples

# ingest
kafka-acls.sh --bootstrap-server kafka-1:9093 --command-config client.properties --add --allow-principal User:ingest --operation Read --group warpmeter-ingest
kafka-acls.sh --bootstrap-server kafka-1:9093 --command-config client.properties --add --allow-principal User:ingest --operation Read --topic warpmeter.alert-words --topic warpmeter.alerts --topic warpmeter.capture-commands --topic warpmeter.capture-events --topic warpmeter.capture-requests --topic warpmeter.capture-schedules --topic warpmeter.dead-letters --topic warpmeter.device-samples --topic warpmeter.gpu-events --topic warpmeter.gpu-processes --topic warpmeter.gpu-samples --topic warpmeter.host-samples --topic warpmeter.job-events --topic warpmeter.metric-samples --topic warpmeter.report-events --topic warpmeter.source-health --topic warpmeter.stack-samples
kafka-acls.sh --bootstrap-server kafka-1:9093 --command-config client.properties --add --allow-principal User:ingest --operation Write --topic warpmeter.dead-letters --topic warpmeter.source-health

# scheduler
kafka-acls.sh --bootstrap-server kafka-1:9093 --command-config client.properties --add --allow-principal User:scheduler --operation Describe --group warpmeter-capture-events
kafka-acls.sh --bootstrap-server kafka-1:9093 --command-config client.properties --add --allow-principal User:scheduler --operation Read --group warpmeter-scheduler
kafka-acls.sh --bootstrap-server kafka-1:9093 --command-config client.properties --add --allow-principal User:scheduler --operation Read --topic warpmeter.alert-words --topic warpmeter.alerts --topic warpmeter.capture-events --topic warpmeter.capture-requests --topic warpmeter.report-events
kafka-acls.sh --bootstrap-server kafka-1:9093 --command-config client.properties --add --allow-principal User:scheduler --operation Write --topic warpmeter.alerts --topic warpmeter.capture-commands --topic warpmeter.capture-events --topic warpmeter.capture-requests --topic warpmeter.capture-schedules --topic warpmeter.report-events

# web
kafka-acls.sh --bootstrap-server kafka-1:9093 --command-config client.properties --add --allow-principal User:web --operation Describe --group warpmeter-capture-events
kafka-acls.sh --bootstrap-server kafka-1:9093 --command-config client.properties --add --allow-principal User:web --operation Read --topic warpmeter.capture-events
kafka-acls.sh --bootstrap-server kafka-1:9093 --command-config client.properties --add --allow-principal User:web --operation Write --topic warpmeter.alert-words --topic warpmeter.capture-commands --topic warpmeter.capture-requests --topic warpmeter.capture-schedules

# simulate
kafka-acls.sh --bootstrap-server kafka-1:9093 --command-config client.properties --add --allow-principal User:simulate --operation DescribeConfigs --topic warpmeter.device-samples --topic warpmeter.gpu-samples --topic warpmeter.host-samples --topic warpmeter.job-events --topic warpmeter.source-health --topic warpmeter.stack-samples
kafka-acls.sh --bootstrap-server kafka-1:9093 --command-config client.properties --add --allow-principal User:simulate --operation Write --topic warpmeter.device-samples --topic warpmeter.gpu-samples --topic warpmeter.host-samples --topic warpmeter.job-events --topic warpmeter.source-health --topic warpmeter.stack-samples

# topics
kafka-acls.sh --bootstrap-server kafka-1:9093 --command-config client.properties --add --allow-principal User:topics --operation Alter --resource-pattern-type prefixed --topic warpmeter.
kafka-acls.sh --bootstrap-server kafka-1:9093 --command-config client.properties --add --allow-principal User:topics --operation AlterConfigs --resource-pattern-type prefixed --topic warpmeter.
kafka-acls.sh --bootstrap-server kafka-1:9093 --command-config client.properties --add --allow-principal User:topics --operation Create --resource-pattern-type prefixed --topic warpmeter.

# check
kafka-acls.sh --bootstrap-server kafka-1:9093 --command-config client.properties --add --allow-principal User:check --operation Describe --group warpmeter-ingest --group warpmeter-scheduler
kafka-acls.sh --bootstrap-server kafka-1:9093 --command-config client.properties --add --allow-principal User:check --operation Describe --topic warpmeter.alert-words --topic warpmeter.alerts --topic warpmeter.capture-commands --topic warpmeter.capture-events --topic warpmeter.capture-requests --topic warpmeter.capture-schedules --topic warpmeter.dead-letters --topic warpmeter.device-samples --topic warpmeter.gpu-events --topic warpmeter.gpu-processes --topic warpmeter.gpu-samples --topic warpmeter.host-samples --topic warpmeter.job-events --topic warpmeter.metric-samples --topic warpmeter.report-events --topic warpmeter.source-health --topic warpmeter.stack-samples
kafka-acls.sh --bootstrap-server kafka-1:9093 --command-config client.properties --add --allow-principal User:check --operation DescribeConfigs --topic warpmeter.alert-words --topic warpmeter.alerts --topic warpmeter.capture-commands --topic warpmeter.capture-events --topic warpmeter.capture-requests --topic warpmeter.capture-schedules --topic warpmeter.dead-letters --topic warpmeter.device-samples --topic warpmeter.gpu-events --topic warpmeter.gpu-processes --topic warpmeter.gpu-samples --topic warpmeter.host-samples --topic warpmeter.job-events --topic warpmeter.metric-samples --topic warpmeter.report-events --topic warpmeter.source-health --topic warpmeter.stack-samples

# replay
kafka-acls.sh --bootstrap-server kafka-1:9093 --command-config client.properties --add --allow-principal User:replay --operation Describe --group warpmeter-replay
kafka-acls.sh --bootstrap-server kafka-1:9093 --command-config client.properties --add --allow-principal User:replay --operation Read --group warpmeter-ingest
kafka-acls.sh --bootstrap-server kafka-1:9093 --command-config client.properties --add --allow-principal User:replay --operation Read --topic warpmeter.alert-words --topic warpmeter.alerts --topic warpmeter.capture-commands --topic warpmeter.capture-events --topic warpmeter.capture-requests --topic warpmeter.capture-schedules --topic warpmeter.dead-letters --topic warpmeter.device-samples --topic warpmeter.gpu-events --topic warpmeter.gpu-processes --topic warpmeter.gpu-samples --topic warpmeter.host-samples --topic warpmeter.job-events --topic warpmeter.metric-samples --topic warpmeter.report-events --topic warpmeter.source-health --topic warpmeter.stack-samples
kafka-acls.sh --bootstrap-server kafka-1:9093 --command-config client.properties --add --allow-principal User:replay --operation Write --topic warpmeter.dead-letters

# people
kafka-acls.sh --bootstrap-server kafka-1:9093 --command-config client.properties --add --allow-principal User:people --operation Describe --group warpmeter-capture-events
kafka-acls.sh --bootstrap-server kafka-1:9093 --command-config client.properties --add --allow-principal User:people --operation Read --topic warpmeter.capture-events
kafka-acls.sh --bootstrap-server kafka-1:9093 --command-config client.properties --add --allow-principal User:people --operation Write --topic warpmeter.alert-words --topic warpmeter.capture-commands --topic warpmeter.capture-requests --topic warpmeter.capture-schedules --topic warpmeter.report-events --topic warpmeter.stack-samples

# reader
kafka-acls.sh --bootstrap-server kafka-1:9093 --command-config client.properties --add --allow-principal User:reader --operation Describe --group warpmeter-tail
kafka-acls.sh --bootstrap-server kafka-1:9093 --command-config client.properties --add --allow-principal User:reader --operation Read --topic warpmeter.device-samples --topic warpmeter.gpu-events --topic warpmeter.gpu-processes --topic warpmeter.gpu-samples --topic warpmeter.host-samples --topic warpmeter.job-events --topic warpmeter.metric-samples --topic warpmeter.source-health --topic warpmeter.stack-samples
