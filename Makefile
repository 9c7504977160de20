# The commands of this project. `make demo` shows the job, `make test` proves it; both install nothing outside of
# this folder and the user's cache.

CARGO ?= cargo
export CARGO_TERM_COLOR ?= auto

.PHONY: demo test bench generate bundle catalog check build tools clean

# Builds everything, starts a real control plane on loopback and shows a fleet being kept up to date.
# KEEP=1 leaves it running; Ctrl-C ends it.
demo: build
	$(CARGO) run --quiet --package olm-tests --bin demo -- $(if $(KEEP),--keep)

# All tests.
test: check build tools
	$(CARGO) test --workspace --quiet --lib --test '*' -- --test-threads=4

# Measures the release build on a real control plane and prints a table.
bench:
	$(CARGO) build --release --quiet --package oneagent-operator
	$(CARGO) build --release --quiet --package olm-tests --bin bench
	$(CARGO) run --release --quiet --package olm-tests --bin bench

# What can be said without running anything.
check:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	$(CARGO) run --quiet -- generate --check

build:
	$(CARGO) build --workspace --quiet

# The control plane's programs, built from pinned Go modules into the user's cache.
tools:
	$(CARGO) run --quiet --package olm-tests --bin tools

# Writes config/, bundle/ and catalog/ from the Rust types and catalog/releases.yaml.
generate:
	$(CARGO) run --quiet -- generate

# The OLM bundle and catalog alone.
bundle:
	$(CARGO) run --quiet -- generate bundle

catalog:
	$(CARGO) run --quiet -- generate catalog

clean:
	$(CARGO) clean
