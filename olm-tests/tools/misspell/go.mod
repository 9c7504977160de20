module oneagent-operator/olm-tests/tools/misspell

go 1.26.0

tool github.com/golangci/misspell/cmd/misspell

require github.com/golangci/misspell v0.8.0 // indirect
