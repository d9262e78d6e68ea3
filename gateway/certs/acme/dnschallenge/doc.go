// Package dnschallenge answers the challenge of an ACME authority by DNS (RFC 8555, section
// 8.4): it adds a TXT record to a zone, waits until resolvers see it, and removes it. An
// authority issues wildcard certificates for no other challenge.
//
// A Provider changes a zone. Those of RFC 2136, Cloudflare and a program of the operator are
// in this package; those of Route 53, acme-dns and an HTTP service are lego's.
//
// # Limits and threats
//
// Only the gateway's own record is added and removed; other TXT records of the name stay. A
// record is noted in the storage of the certificates from before it is added until it is
// removed. So one whose removal fails is removed later, also after a crash. Anyone who may
// change the zone can get certificates for its names: keys should permit no more than TXT
// records of _acme-challenge. A CNAME of that name to a zone of its own, which the package
// follows, limits them further.
//
// No error and no line of the log has a secret of the configuration, whatever a server answers.
package dnschallenge
