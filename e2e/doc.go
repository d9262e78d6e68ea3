// Package e2e holds the whole-system tests. They build the real programs with the
// race detector, start them as processes, and use them over real TLS, as people,
// browsers, applications and operators do. Rules that a unit test can prove are
// in the package that has them; a test here proves that the parts work together,
// or that a real counterpart behaves as the product expects.
//
// The module has its own go.mod, so that the product does not depend on what only
// tests need. Run one test with
//
//	go test -C e2e -run '^TestStopIdle$' .
//	go test -C e2e -run TestScripts/session .
//
// Package world starts the programs, upstreams and people of these tests.
//
// # Stories and where they are
//
//	testdata/*.txtar   what one can try with curl: mechanisms, policies, the command line
//	advisory_*         attacks that other programs were vulnerable to, by CVE
//	acme_*             certificates from pebble, a real ACME server, also for two instances
//	browser_*          Chromium: pages, cookies, policies, other sites, signing in and out
//	oidc_*             oidc-provider, a certified provider (provider/): logins, refresh, logout, bearer tokens
//	callback, hostile_*  a provider that lies: callbacks, tokens, userinfo, discovery, logout
//	redis_*            two instances on Redis that is killed, frozen, cut off, full, far away, or a Cluster
//	rolling            restarts of instances behind a balancer, without a lost request
//	stop, streams, descriptors, timeout    connections, from the client to the upstream
//	applications_*     real applications, as docs/applications.md configures them; browser_terminal too
//	symptoms           what docs/troubleshooting.md describes, caused
//	howto              the configurations of docs/how-to, with nginx, Redis, and applications that read headers
//	balancer, cgi, h2spec, whatwg    HAProxy, CGI servers, the suite for HTTP/2, the URL parser of browsers
//	unread, ntlm       applications that leave bodies unread, or sign in a connection
//	disk               a disk that is full
//	log, metrics, throttle, login_flood, terminal    what operators see and set
//	docs_*             the documents: the index, links, options, commands, names of tests
//	interop_*          Keycloak, Dex, zitadel/oidc, Firefox, HTTP clients; only make interop runs them
//
// Packages beside this one:
//
//	chaos    random faults under load, and a checker for the history
//	interop  what the gateway was run against, for docs/interop.md
//	deploy   the examples of docs/deploy: compose, Kubernetes, systemd, Valkey
//	bench    what authentication costs, compared with a bare proxy, nginx and HAProxy
package e2e
