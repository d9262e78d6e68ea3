// Package config reads config.yaml: the types of the configuration, their
// defaults, and all checks that are possible before the gateway starts.
//
// # Job
//
// [Load] turns a file into a [Config] that is decided: it contains the defaults,
// resolved paths, the values of ${NAME} and x_file, parsed URLs and networks,
// and the table of routes with compiled policies. Nothing in it has to be parsed
// again, and each name in it refers to something that exists. Otherwise Load
// returns [Diagnostics]: all mistakes at once, each with file, line, column, key
// and source line.
//
// Package strictyaml decodes the files. Each section of the configuration has one
// file: its types, whose tags declare all that concerns one key alone, and the checks
// of several keys. Sections that need no other are in listening, forwarding and
// issuers, and most packages import only these. Package section has the parts that
// all of them share. config.go loads the whole, and check.go has the order of the
// checks. Rules that others share are in package policy.
//
// The tag reload:"restart" tells that a reload does not apply a key. Package strictyaml
// has the others.
//
// # Limits
//
// The package opens no listener and keeps no file open. It reads the
// configuration and the files that it names. A configuration file, an
// accounts file in YAML and an htpasswd file have at most 8 MiB each, an accounts
// file in JSON lines 64 MiB, and a file with one secret 64 KiB.
//
// # Threats
//
// A mistake must not become a permission: an ignored misspelled key, an empty
// list that means all users, or an unset variable that becomes an empty
// password. Everything without a certain meaning is an error, and after an error
// there is no partial result. Two issuers of identities with one name are an
// error too, because policies and upstreams distinguish them by the name only.
// Secrets have the type [Secret], which does not print.
package config
