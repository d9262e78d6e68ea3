// Package e2e holds the whole-system tests: they build the real programs and
// talk to them over real TLS, as a stranger would.
//
// The scripts in testdata read like a session at a terminal: each is a
// configuration and the commands to try on it (see rogpeppe/go-internal's
// testscript). Tests that need a counterpart made of code, such as an upstream
// that records what reaches it, are in Go.
package e2e
