// Package e2e is the module of the whole-system tests. They build the real programs, mostly
// with the race detector, start them as processes, and use them over real TLS, as people,
// browsers, applications and operators do. Rules that a unit test can prove are in the
// package that has them; a test here proves that the parts work together, or that a real
// counterpart behaves as the product expects. There is a package for each counterpart.
//
// The module has its own go.mod, so that the product does not depend on what only tests
// need. Run a package, a test or a script with
//
//	go test -C e2e -count=1 ./wire
//	go test -C e2e -count=1 ./wire -run '^TestStopIdle$'
//	go test -C e2e -count=1 ./cli -run TestScripts/session
//
// The programs are built into bin/e2e, where Go leaves alone what is up to date. make test builds them
// once for all packages, and names the folder in AUTHGATE_PROGRAMS.
//
// # Packages
//
//	world      what the tests share: gateways, upstreams that record, people, a certified provider
//	wire       bytes: HTTP/1.1, HTTP/2, HTTP/3, gRPC, TLS, CGI, stops, timeouts; advisory_* has attacks that
//	           other programs were vulnerable to, by CVE
//	oidc       oidc-provider, a certified provider (provider/), and a provider that lies
//	oauth      libraries of others that sign users in at the gateway as their OpenID provider
//	acme       certificates from pebble, a real ACME server, also for two instances
//	redis      two instances on Redis that is killed, frozen, cut off, full, far away, or a Cluster; rolling restarts
//	browser    Chromium: pages, cookies, policies, other sites, signing in and out
//	apps       real applications and their clients, as docs/applications and docs/how-to configure them
//	proxies    proxies that ask the gateway or stand in front of it, as docs/forward-auth, docs/how-to, docs/migrate
//	           and docs/deploy configure them
//	cli        commands, terminals, files and disks; testdata/*.txtar has what one can try with curl
//	examples   what documents show, done: commands, configurations, recipes, defaults, symptoms, metrics
//	documents  what documents say, read: links, names of tests and code, tables, numbers, prefixes; the schema
//
//	redisstore  the store on real Redis servers, which redistest starts
//	chaos       random faults under load, and a checker for the history
//	interop     what the gateway was run against, for docs/interop.md
//	deploy      the examples of docs/deploy: compose, Kubernetes, systemd, Valkey
//	bench       what authentication costs, compared with a bare proxy, nginx and HAProxy
//	mutation    small faults in the packages that decide, and how many the tests find
//
// Keycloak, Dex, zitadel/oidc, Firefox, packaged proxies, HTTP clients, Authlib, Nimbus and Apache are behind the
// build tag interop: only make interop runs them.
package e2e
