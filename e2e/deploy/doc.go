// Package deploy holds the tests of the examples in docs/deploy: of each as
// far as that goes without Docker, a cluster or a booted systemd.
//
// A schema says that a file is well formed, which is the least of it. So the
// tests also lay out the files that a gateway would see under a folder (see
// machine) and let the real program judge its configuration there, and compare
// what stands in two places: ports, names, times, paths.
package deploy
