// Package world has the parts that the tests of several counterparts share: it starts the
// programs, the upstreams that record requests, and people who sign in.
//
// Programs and servers of a test end with the test. A test fails if the log of its
// gateway has a panic or a data race. Each package of tests has a TestMain that calls
// [Main].
//
//	instance.go     Instance: one gateway with its configuration, log and clients; start it here
//	people.go       accounts, logins, and clients without cookies
//	browser.go      Browser: cookies, redirects and forms, without scripts
//	surfer.go       Surfer: a browser that finds all hosts at one address, as those of documents
//	recorder.go     Recorder: an upstream that records requests byte for byte
//	raw.go          requests that no HTTP library sends
//	stream.go       Streams: WebSockets and downloads without an end
//	observe.go      readiness, logs and metrics, as operators see them
//	certified.go    Certified: oidc-provider, a certified OpenID provider (e2e/provider)
//	application.go  Tap: what reaches a real application
//	document.go     Document: the files and configurations that documents show
//	process.go      programs, and waiting for them
//	product.go      all that these tests take from packages of the product
package world
