# All tasks of development and CI. `make` alone lists the targets.

FUZZTIME ?= 3s
CHAOSTIME ?= 1m
CHAOSSEED ?=
MUTANTS ?= 100
MUTANTSEED ?= 1
BENCHFLAGS ?=
GO_IMAGE ?=
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
GOFMT = $(shell go env GOROOT)/bin/gofmt

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help deps build run quick test cover lint format-check fmt fuzz chaos mutation bench image clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

deps: ## install what the tests need on Debian as root, or print what to install
	@.ci/deps go gcc curl node chromium redis-server openssl systemd-analyze lighttpd busybox sqlite3 haproxy nginx caddy git prometheus jupyter flask

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

test: deps lint ## lint, all tests with the race detector, each fuzz target for FUZZTIME (3s)
	go test -race -timeout 30m ./...
	go test -C e2e -race -timeout 30m ./...
	.ci/fuzz $(FUZZTIME)

cover: ## coverage of the product by the unit tests: each package, the total, bin/cover.html
	@.ci/deps go
	@.ci/cover

lint: format-check ## formatting, vet, staticcheck, tidy go.mod files
	go build -C e2e -o ../bin/ honnef.co/go/tools/cmd/staticcheck
	go vet ./...
	bin/staticcheck ./...
	go mod tidy -diff
	go vet -C e2e ./...
	cd e2e && ../bin/staticcheck ./...
	go mod tidy -C e2e -diff

format-check:
	@.ci/deps go
	@unformatted=$$($(GOFMT) -l .) || exit 1; \
	if [ -n "$$unformatted" ]; then echo "These files are not formatted. Run make fmt:"; echo "$$unformatted"; exit 1; fi

fmt: ## format all Go files
	@.ci/deps go
	$(GOFMT) -w .

fuzz: ## run each fuzz target for FUZZTIME (3s)
	@.ci/deps go
	.ci/fuzz $(FUZZTIME)

chaos: ## run clients under random faults for CHAOSTIME (1m) and check the history; CHAOSSEED repeats a round
	@.ci/deps go gcc redis-server
	CHAOSTIME=$(CHAOSTIME) CHAOSSEED=$(CHAOSSEED) go test -C e2e -race -v -count=1 -timeout 0 -run '^TestFaults$$' ./chaos

mutation: ## make MUTANTS (100) small faults in each of the packages that decide, and count those that tests find
	@.ci/deps go
	go build -C e2e -o ../bin/ ./mutation
	@ulimit -v 10000000; set -- -dir . -mutants $(MUTANTS) -seed $(MUTANTSEED); \
	bin/mutation "$$@" -package ./policy && \
	bin/mutation "$$@" -package ./gateway/auth -tests './gateway/auth ./gateway/login' && \
	bin/mutation "$$@" -package ./gateway/login -tests './gateway/login ./gateway/auth' && \
	bin/mutation "$$@" -package ./gateway/upstream/http1 && \
	bin/mutation "$$@" -package ./gateway/upstream -tests './gateway/upstream ./gateway'

bench: ## Go benchmarks, then the cost of the gateway against a bare proxy, nginx and HAProxy (BENCHFLAGS=-only=session: some rows)
	@.ci/deps go wrk h2load nginx haproxy taskset redis-server
	go test -run '^$$' -bench . -benchmem ./...
	go test -C e2e -run '^$$' -bench . . ./redisstore
	go run -C e2e ./bench $(BENCHFLAGS)

image: ## build the image and check that it runs (GO_IMAGE=...: another base)
	@VERSION=$(VERSION) .ci/image $(GO_IMAGE)

clean: ## remove bin; data/ with its keys stays
	rm -rf bin
