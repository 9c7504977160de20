module oneagent-operator/olm-tests/tools/olmv1-10

go 1.26.3

// Only files of it are used, and no package.
require github.com/operator-framework/operator-controller v1.10.0
