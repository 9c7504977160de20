module oneagent-operator/olm-tests/tools/istio

go 1.26.3

require istio.io/api v1.27.0
