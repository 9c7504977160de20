module oneagent-operator/olm-tests/tools/openshift

go 1.26.3

require github.com/openshift/api v0.0.0-20260204104751-e09e5a4ebcd0
