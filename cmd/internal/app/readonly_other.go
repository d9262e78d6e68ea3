//go:build !linux

package app

// readOnly is for Linux.
func readOnly(string) bool { return false }
