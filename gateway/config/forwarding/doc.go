// Package forwarding has the sections of a configuration that say where requests go, and
// what an application gets with them: upstreams and identity_headers.
package forwarding
