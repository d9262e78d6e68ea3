// Package certs provides the certificates of the TLS listener, as tls.mode
// says: from a local authority, from files, or from an ACME authority (package
// acme).
//
// # Limits and threats
//
// The local authority (internal) issues a certificate for a name when a client asks
// for it, but only for the gateway's names and wildcards, so that the work is bounded.
// It is for tests and private networks. Anyone who reads its key can issue
// certificates to clients that trust it, for the gateway's names alone: its own
// certificate permits no others (RFC 5280, section 4.2.1.10). RFC 5280 does not ask
// clients to apply the constraints of a certificate that they trust themselves; those
// in use do. The key is in data_dir, in a file for its owner only.
//
// Refresh never replaces working certificate files (files) by ones that cannot
// be used.
//
// TLSConfig allows no version below TLS 1.2, and for TLS 1.2 only cipher suites
// with forward secrecy and authenticated encryption.
package certs
