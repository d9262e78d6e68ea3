// Package install installs the packages of a release into a Debian that a test makes,
// and runs them, also with systemd as its first process. `make packages` runs it as root after `make dist`.
package install
