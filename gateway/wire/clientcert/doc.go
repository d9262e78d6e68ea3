// Package clientcert knows the certificates of clients: how a request presents one, whether it
// is valid, and which user it names. It issues some, too.
//
// # Job
//
// A [Presented] is the certificate of a request: that of its TLS connection, or the one that a
// trusted proxy describes by Client-Cert (RFC 9440). A [Verifier] is the one place that
// verifies a chain of certificates. A Presented remembers the finding of its Verifier, so that
// a connection costs one verification, and another one after a reload, which makes a new
// Verifier. An [Authority] is the gateway's own authority for clients.
//
// # Limits and threats
//
// The handshake accepts every certificate: only a route or an endpoint that needs one refuses
// a wrong one. So a resumed connection is verified like a new one, and one that stays open is
// verified again when the configuration changes or a certificate of its chain expires. Lists
// tell which certificates are revoked. The package fetches none, asks no OCSP server, and
// knows no delta lists.
//
// Errors of a Verifier are for operators. They quote nothing of a certificate that no client
// CA has issued, because its maker chooses its subject.
package clientcert
