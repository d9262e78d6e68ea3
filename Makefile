# Everything a developer or a machine runs. `make` alone lists the targets.

FUZZTIME ?= 3s
CHAOSTIME ?= 1m
CHAOSSEED ?=
BENCHFLAGS ?=
GO_IMAGE ?=
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
GOFMT = $(shell go env GOROOT)/bin/gofmt

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help deps build run test lint fmt fuzz chaos bench image clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

deps: ## install what the tests need, or say what to install
	@.ci/deps go gcc curl node chromium redis-server openssl systemd-analyze lighttpd busybox sqlite3 haproxy

build: ## build bin/authgate
	@.ci/deps go
	CGO_ENABLED=0 go build -trimpath -ldflags "-X main.version=$(VERSION)" -o bin/authgate ./cmd/authgate

run: ## run the demonstration: gateway, upstream and config.yaml; Ctrl-C stops it
	@.ci/deps go
	@go build -o bin/demo ./cmd/demo
	@exec bin/demo

test: deps lint ## formatting, vet, staticcheck, all tests with -race, FUZZTIME (3s) of each fuzz target
	go test -race -timeout 30m ./...
	go test -C e2e -race -timeout 30m ./...
	.ci/fuzz $(FUZZTIME)

lint: ## formatting, vet, staticcheck and a tidy go.mod
	@.ci/deps go
	@unformatted=$$($(GOFMT) -l .) || exit 1; \
	if [ -n "$$unformatted" ]; then echo "not formatted; run make fmt:"; echo "$$unformatted"; exit 1; fi
	go build -C e2e -o ../bin/ honnef.co/go/tools/cmd/staticcheck
	go vet ./...
	bin/staticcheck ./...
	go mod tidy -diff
	go vet -C e2e ./...
	cd e2e && ../bin/staticcheck ./...
	go mod tidy -C e2e -diff

fmt: ## format all Go files
	@.ci/deps go
	$(GOFMT) -w .

fuzz: ## run each fuzz target for FUZZTIME (3s)
	@.ci/deps go
	.ci/fuzz $(FUZZTIME)

chaos: ## clients and random faults for CHAOSTIME (1m), with CHAOSSEED as in a run before; then a check of all that happened
	@.ci/deps go gcc redis-server
	CHAOSTIME=$(CHAOSTIME) CHAOSSEED=$(CHAOSSEED) go test -C e2e -race -v -count=1 -timeout 0 -run '^TestFaults$$' ./chaos

bench: ## the Go benchmarks, then what authentication costs over a bare proxy, and Redis over SQLite (BENCHFLAGS=-seconds=2: quick)
	@.ci/deps go wrk taskset redis-server
	go test -run '^$$' -bench . -benchmem ./...
	go test -C e2e -run '^$$' -bench . .
	go run -C e2e ./bench $(BENCHFLAGS)

image: ## check that the Dockerfile builds and its image runs (GO_IMAGE=...: another base)
	@VERSION=$(VERSION) .ci/image $(GO_IMAGE)

clean: ## remove what was built; data/ with its keys stays
	rm -rf bin
