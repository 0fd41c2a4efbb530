"""What passed through, counted: in Prometheus' words and in OpenTelemetry's."""
