// Package config reads config.yaml: the YAML types, their defaults, the
// strict decoder and every check that can be made before anything is started.
//
// # Job
//
// [Load] turns a file into a [Config] in which nothing is left to decide:
// defaults are filled in, paths resolved, ${NAME} and x_file replaced, names
// that stand for other parts known to exist, policies and routes known to
// compile. Otherwise it returns [Diagnostics]: everything that is wrong, at
// once, each with file, line, column, key and the source line.
//
// There is one decoder for all types. It walks the syntax tree by the yaml
// tags of the structs and remembers where each value stands, so that a check
// made long after decoding, in this package or in package policy, still
// points at the right place.
//
// # Limits
//
// The package opens no listener and keeps no file open; it reads the
// configuration and the files that it names. A configuration file holds at
// most 1 MiB, an accounts or htpasswd file 8 MiB, a file with one secret
// 64 KiB. Aliases may not blow a small file up to more than 50,000 values,
// and nothing may be nested deeper than 100 levels in one line, which bounds
// memory and stack whatever is read. Time is not bounded as well: the YAML
// parser takes the square of the number of keys in one mapping (seconds for ten
// thousand), but whoever writes the file can stop the gateway anyway. Tags, several documents in one file,
// numbers in other bases than ten and "yes" for true are refused: each has
// more than one reading.
//
// # Threats
//
// A misspelt key that is silently ignored, an empty list that means everyone,
// a variable that is not set and becomes an empty password: whatever has no
// certain meaning is an error, and there is no partial result. Two issuers of
// identities under one name are an error too: by that name alone policies and
// upstreams tell them apart. An environment variable is put in after the YAML
// has been read and never read as YAML itself, so its value cannot add keys.
// Secrets have the type [Secret], which does not print, and the source lines
// shown with a diagnostic have the values of secret keys masked, of misspelt
// ones too.
package config
