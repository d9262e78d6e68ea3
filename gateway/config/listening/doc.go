// Package listening has the sections of a configuration that say where and how the gateway
// listens: listen, tls and certificates.
package listening
