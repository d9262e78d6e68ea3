# All tasks of development and CI. `make` alone lists the targets.

FUZZTIME ?= 30s
CHAOSTIME ?= 1m
CHAOSSEED ?=
MUTANTS ?= 100
MUTANTSEED ?= 1
BENCHFLAGS ?=
GO_IMAGE ?=
ROWS ?=
SIGNING_KEY ?=
VERSION ?= $(shell .ci/version)
GOFMT = $(shell go env GOROOT)/bin/gofmt

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help deps build run quick test interop cover lint format-check fmt fuzz chaos mutation bench dist packages reproduce image clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

deps: ## install what the tests need on Debian as root, or print what to install
	@.ci/deps go gcc curl node chromium-headless-shell redis-server openssl systemd-analyze lighttpd busybox sqlite3 haproxy nginx caddy git prometheus jupyter mcp flask oathtool ssh-keygen

build: ## build bin/authgate
	@.ci/deps go
	CGO_ENABLED=0 go build -trimpath -ldflags "-X main.version=$(VERSION)" -o bin/authgate ./cmd/authgate

run: ## run the demonstration: config.yaml, an application and a provider; Ctrl-C stops it
	@.ci/deps go
	@go build -o bin/demo ./cmd/demo
	@exec bin/demo

quick: format-check ## formatting, vet and the unit tests, without Redis, browser or npm
	go vet ./...
	go test ./...

# The packages of e2e share the programs that they test, which have the race detector. So has redisstore,
# whose tests have the product in their own process; it runs beside the others. While the tests of one
# package wait for leases, timeouts or a browser, those of two others use the processors. Packages that
# take long begin first. lint has vetted all packages, so go test does not vet them again. -count=1: Go
# would keep results by the files of e2e alone, whatever became of the programs and documents. GORACE:
# no second of waiting at the end of each process.
test: export GORACE := $(strip $(GORACE) atexit_sleep_ms=0)
test: deps lint ## lint, all tests, the product with the race detector; fuzz targets run their seeds
	go test -race -vet=off -timeout 30m ./policy ./...
	go build -race -o bin/e2e/race/ ./cmd/authgate ./cmd/upstream ./cmd/demo
	go build -o bin/e2e/plain/ ./cmd/authgate ./cmd/upstream ./cmd/demo
	go test -C e2e -race -count=1 -vet=off -timeout 30m ./redisstore & store=$$!; \
	AUTHGATE_PROGRAMS=$(CURDIR)/bin/e2e go test -C e2e -count=1 -p 3 -vet=off -timeout 30m \
		./browser ./acme ./wire ./redis $$(go list -C e2e ./... | grep -v /redisstore); \
	status=$$?; wait $$store && exit $$status
	go test -C packaging -race -count=1 -vet=off -timeout 10m .

interop: export AUTHGATE_CHROMIUM = chromium
interop: deps ## run the gateway against programs that others wrote, write docs/interop.md, run e2e without the fast path; ROWS='Dex|Caddy': some programs alone
	@.ci/deps go gcc wget chromium firefox requests litmus rclone httpx cryptography mod-auth-openidc radicale docker-registry skopeo syncthing transmission slapd samba fail2ban crowdsec rabbitmq-server pypi nodered jupyter providers stores proxies libraries gitea headscale kubernetes minio homeassistant uptimekuma codeserver conformance n8n keycloak nimbus spring oauth2proxy
	go build -C e2e -o ../bin/interop/run ./interop
	@cd e2e && ../bin/interop/run -rows '$(ROWS)'
	[ -n '$(ROWS)' ] || AUTHGATE_FAST_PATH=false go test -C e2e -race -count=1 -p 3 -timeout 30m ./...

cover: ## coverage of the product by the unit tests: each package, the total, bin/cover.html
	@.ci/deps go
	@.ci/cover

lint: format-check ## formatting, vet, staticcheck, wording, tidy go.mod files
	go build -C e2e -o ../bin/ honnef.co/go/tools/cmd/staticcheck
	go vet ./...
	bin/staticcheck ./...
	go build -C e2e -o ../bin/ ./wording
	bin/wording
	go mod tidy -diff
	go vet -C e2e -tags interop ./...
	cd e2e && ../bin/staticcheck -tags interop ./...
	go mod tidy -C e2e -diff
	go vet -C packaging ./...
	cd packaging && ../bin/staticcheck ./...
	go mod tidy -C packaging -diff

format-check:
	@.ci/deps go
	@unformatted=$$($(GOFMT) -l .) || exit 1; \
	if [ -n "$$unformatted" ]; then echo "These files are not formatted. Run make fmt:"; echo "$$unformatted"; exit 1; fi

fmt: ## format all Go files
	@.ci/deps go
	$(GOFMT) -w .

fuzz: ## run each fuzz target for FUZZTIME (30s); what it finds becomes a seed
	@.ci/deps go
	.ci/fuzz $(FUZZTIME)

chaos: ## run clients under random faults for CHAOSTIME (1m) and check the history, CHAOSSEED repeats a round; kill a gateway that writes its audit file
	@.ci/deps go gcc redis-server
	CHAOSTIME=$(CHAOSTIME) CHAOSSEED=$(CHAOSSEED) go test -C e2e -race -v -count=1 -timeout 0 -run '^TestFaults$$' ./chaos
	AUDITKILLS=100 go test -C e2e -v -count=1 -timeout 0 -run '^TestAuditFileSurvivesKills$$' ./cli

mutation: ## make MUTANTS (100) small faults in each of the packages that decide, and count those that tests find
	@.ci/deps go
	go build -C e2e -o ../bin/ ./mutation
	@ulimit -v 10000000; set -- -dir . -mutants $(MUTANTS) -seed $(MUTANTSEED); \
	bin/mutation "$$@" -package ./policy && \
	bin/mutation "$$@" -package ./gateway/identity/auth -tests './gateway/identity/auth ./gateway/login' && \
	bin/mutation "$$@" -package ./gateway/login -tests './gateway/login ./gateway/identity/auth' && \
	bin/mutation "$$@" -package ./gateway/identity/trusted -tests './gateway/identity/trusted ./gateway/login' && \
	bin/mutation "$$@" -package ./gateway/login/journey && \
	bin/mutation "$$@" -package ./gateway/proxy/upstream/http1 && \
	bin/mutation "$$@" -package ./gateway/proxy/upstream -tests './gateway/proxy/upstream ./gateway'

bench: ## Go benchmarks, then the cost of the gateway against a bare proxy, nginx and HAProxy (BENCHFLAGS=-only=session: some rows)
	@.ci/deps go wrk h2load nginx haproxy caddy taskset redis-server
	go test -run '^$$' -bench . -benchmem ./...
	go test -C e2e -run '^$$' -bench . ./redis ./redisstore
	go run -C e2e ./bench $(BENCHFLAGS)

dist: ## build a release in dist: archives, .deb and .rpm, SBOMs, SHA256SUMS; SIGNING_KEY=FILE signs with an SSH key
	@.ci/deps go git $(if $(SIGNING_KEY),ssh-keygen)
	go build -C packaging -o ../bin/packaging .
	bin/packaging -source . -out dist -version "$(VERSION)" -key "$(SIGNING_KEY)"

packages: ## install the packages of dist into a minimal Debian, and run, upgrade and remove them; needs root
	@.ci/deps go mmdebstrap rpm systemd-analyze
	go test -C packaging -count=1 -v -timeout 30m ./install

reproduce: ## build the commit of dist again, in another folder and without caches, and compare SHA256SUMS
	@.ci/deps go git
	@.ci/reproduce

image: ## build the image, check its size and that it runs (GO_IMAGE=...: another base)
	@VERSION=$(VERSION) .ci/image $(GO_IMAGE)

clean: ## remove bin and dist; data/ with its keys stays
	rm -rf bin dist
