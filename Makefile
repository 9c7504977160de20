# The commands of this project. `make demo` shows the job, `make test` proves it; both install nothing outside of
# this folder and the user's cache.

CARGO ?= cargo
export CARGO_TERM_COLOR ?= auto
GENERATE ?= $(CARGO) run --quiet --package olm-tests --bin generate --
RELEASE ?= $(CARGO) run --quiet --package olm-tests --bin release --

.PHONY: demo test bench docs generate bundle catalog check build tools images key release publish submission clean

# The programs that a demo runs.
SHOWN := oneagent-operator kubectl-oneagent demo peer webapp

# Builds what it runs, starts a real control plane on loopback and shows a fleet being kept up to date.
# KIND=configwatcher, KIND=jmx, KIND=manager or KIND=daemonset shows that kind instead. BAD=1 publishes a version that crashes first; PICTURE=docs/rollout.svg draws it, and
# docs/phases.svg beside it. OLM=1 installs and upgrades it with Operator Lifecycle Manager. KEEP=1 leaves it running; Ctrl-C ends it.
demo:
	@echo "building (minutes, the first time)"
	@$(CARGO) build --quiet --package oneagent-operator --package olm-tests $(addprefix --bin ,$(SHOWN))
	$(CARGO) run --quiet --package olm-tests --bin demo -- $(if $(KEEP),--keep) $(if $(OLM),--olm) $(if $(KIND),--kind $(KIND)) $(if $(BAD),--bad) $(if $(PICTURE),--picture $(PICTURE))

# All tests: goes on after a red suite, with a summary at the end.
test:
	CARGO="$(CARGO)" .ci/test

# Measures the release build on a real control plane and prints a table. ONLY="plan latency rollout watchers jvms manyjvms stacks large zones flap fifty memory plugin" for a part.
bench:
	$(CARGO) build --release --quiet --package oneagent-operator
	$(CARGO) build --release --quiet --package olm-tests --bin bench
	$(CARGO) run --release --quiet --package olm-tests --bin bench -- $(ONLY)

# The site of docs/ in target/site, by mdBook, which is built into the user's cache once.
MDBOOK_VERSION := 0.5.4
MDBOOK := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/oneagent-operator/mdbook-$(MDBOOK_VERSION)
docs:
	@test -x "$(MDBOOK)/bin/mdbook" || { echo "building mdBook (once; a few minutes)"; \
		env -u CARGO_TARGET_DIR -u RUSTFLAGS $(CARGO) install --quiet --locked --root "$(MDBOOK)" \
		--version $(MDBOOK_VERSION) --no-default-features --features search mdbook; }
	"$(MDBOOK)/bin/mdbook" build

# What can be said without running anything.
check:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings
	$(GENERATE) --check

build:
	$(CARGO) build --workspace --quiet

# The control plane's programs, built from pinned Go modules into the user's cache.
tools:
	$(CARGO) run --quiet --package olm-tests --bin tools

# Writes config/, bundle/ and catalog/ from the Rust types and catalog/releases.yaml.
generate:
	$(GENERATE)

# The OLM bundle and catalog alone.
bundle:
	$(GENERATE) bundle

catalog:
	$(GENERATE) catalog

# Images of the release that Cargo.toml names, by their digests; or, where it is not released, of a preview of this code:
# make images [REGISTRY=host/path] [PUSH=1] [SIGN=cosign.key] [AGENT_IMAGE=…@sha256:…] [OPM_IMAGE=…] [PARTIAL=1]
images:
	@$(RELEASE) images

# A key pair to sign with; the public half goes into the repository: make key FOLDER=…
key:
	@test -n "$(FOLDER)" || { echo "make key FOLDER=…: name a folder outside of the repository for the private half"; exit 1; }
	@$(RELEASE) key $(FOLDER)

# Adds the code's version to the release list, with the digests of its images, and keeps its bundles and charts:
# make release VERSION=0.3.0 [PACKAGES="…"] [AGENT_IMAGE=…@sha256:…]
release:
	@test -n "$(VERSION)" || { echo "make release VERSION=…: name the version, as in Cargo.toml"; exit 1; }
	@$(RELEASE) add $(VERSION)

# Says that a release's images are pushed: from then on the catalog has it. make publish VERSION=0.3.0
publish:
	@test -n "$(VERSION)" || { echo "make publish VERSION=…: name the release, as in catalog/releases.yaml"; exit 1; }
	@$(RELEASE) publish $(VERSION)

# The pull requests by which the community's catalogs take the newest published release of a package:
# make submission PACKAGE=… REVIEWERS="githubname …" [FOLDER=target/submission]
submission:
	@test -n "$(PACKAGE)" || { echo "make submission PACKAGE=…: name a package, such as oneagent-operator"; exit 1; }
	@$(RELEASE) submit $(PACKAGE) $(if $(FOLDER),--folder $(FOLDER))

clean:
	$(CARGO) clean
