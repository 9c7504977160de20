# The commands of this project. `make demo` shows the job, `make test` proves it; both install nothing outside of
# this folder and the user's cache.

CARGO ?= cargo
export CARGO_TERM_COLOR ?= auto
GENERATE ?= $(CARGO) run --quiet --package olm-tests --bin generate --

.PHONY: demo test bench generate bundle catalog check build tools images sign release publish submission clean

# Builds everything, starts a real control plane on loopback and shows a fleet being kept up to date.
# KIND=configwatcher shows that kind instead. BAD=1 publishes a version that crashes first; PICTURE=docs/rollout.svg draws it, and
# docs/phases.svg beside it. OLM=1 installs and upgrades it with Operator Lifecycle Manager. KEEP=1 leaves it running; Ctrl-C ends it.
demo:
	@echo "building (minutes, the first time)"
	@$(MAKE) --no-print-directory build
	$(CARGO) run --quiet --package olm-tests --bin demo -- $(if $(KEEP),--keep) $(if $(OLM),--olm) $(if $(KIND),--kind $(KIND)) $(if $(BAD),--bad) $(if $(PICTURE),--picture $(PICTURE))

# All tests: goes on after a red suite, with a summary at the end.
test:
	CARGO="$(CARGO)" .ci/test

# Measures the release build on a real control plane and prints a table. ONLY="plan latency rollout watchers large zones flap fifty memory" for a part.
bench:
	$(CARGO) build --release --quiet --package oneagent-operator
	$(CARGO) build --release --quiet --package olm-tests --bin bench
	$(CARGO) run --release --quiet --package olm-tests --bin bench -- $(ONLY)

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

# Images of operator, bundles and catalog for every architecture that the toolchain can, by buildah or podman:
# make images [REGISTRY=host/path] [PUSH=1] [AGENT_IMAGE=…@sha256:…] [OPM_IMAGE=…]
images:
	@REGISTRY="$(REGISTRY)" PUSH="$(PUSH)" .ci/images

# Signs images that were pushed, and attests what they were made from, by cosign:
# make sign KEY=cosign.key IMAGES="…@sha256:… …" [SBOM=bom.json] [TLOG=true]
sign:
	@KEY="$(KEY)" SBOM="$(SBOM)" TLOG="$(TLOG)" .ci/sign $(IMAGES)

# Adds the code's version to the release list, and keeps its bundles:
# make release VERSION=0.3.0 [OPERATOR_IMAGE=…@sha256:…] [AGENT_IMAGE=…@sha256:…]
release:
	@test -n "$(VERSION)" || { echo "make release VERSION=…: name the version, as in Cargo.toml"; exit 1; }
	@git diff --quiet HEAD || { echo "there are uncommitted changes: commit first, because a release names its commit"; exit 1; }
	$(GENERATE) --release $(VERSION) --commit $$(git rev-parse HEAD) --date $$(date -u +%F)

# Says that a release's images are pushed: from then on the catalog has it.
# make publish VERSION=0.3.0 BUNDLE_IMAGES="oneagent-operator=…@sha256:… configwatcher-operator=…@sha256:…"
publish:
	@test -n "$(VERSION)" || { echo "make publish VERSION=…: name the release, as in catalog/releases.yaml"; exit 1; }
	BUNDLE_IMAGES="$(BUNDLE_IMAGES)" $(GENERATE) --publish $(VERSION)

# What the community's pipelines take the newest published release from, as a folder each of their repositories:
# make submission REVIEWERS="githubname …" [FOLDER=target/submission]
submission:
	@test -n "$(REVIEWERS)" || { echo "make submission REVIEWERS=…: name who may approve, as GitHub knows them"; exit 1; }
	REVIEWERS="$(REVIEWERS)" $(GENERATE) --submission $(or $(FOLDER),target/submission)

clean:
	$(CARGO) clean
