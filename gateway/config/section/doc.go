// Package section has what the sections of a configuration share: the report of
// mistakes at keys, with the checks that several sections need; the files that keys
// name; and the forms of URLs, hosts and addresses.
//
// The packages beside it have the sections that belong together: where the gateway
// listens, who issues identities, and where requests are forwarded. Each section has
// one file: its types, whose tags declare each key, and the checks of what lies between
// keys.
package section
