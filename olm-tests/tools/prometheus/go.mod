module oneagent-operator/olm-tests/tools/prometheus

go 1.26.3

require github.com/prometheus-operator/prometheus-operator v0.85.0
