// Package strictyaml reads configuration files in YAML into Go values and
// reports every mistake with its place.
//
// A [Reader] reads the files of one configuration: a main file and the side
// files that it names. [Reader.Read] decodes a file by the yaml tags of the
// struct types and returns a [Document], which remembers the place of each
// value. A check that runs long after decoding calls [Document.Fault] with the
// dotted path of a value, such as routes[1].policy, and the diagnostic points
// at the right line and column. [Reader.Err] returns all diagnostics at once.
// [Changes] lists how two values that were read differ.
//
// # Declared keys
//
// Tags of a field declare its key: default is the value of a key that is not given; words are
// the only values; min, max, range, zero and why are bounds, and check names further checks of
// the value; file is for paths, which are relative to the folder of the file; of and need say
// for which words of another key there is the key. Where a tag has no room, the methods Words
// and Why of the section have the words and the reasons of bounds.
//
// # What strict means
//
// The reader refuses everything that has more than one reading: unknown and
// duplicate keys, tags, several documents in one file, numbers in other bases
// than ten, "yes" for true, a null where a value is needed, and a file without
// a line break at its end, which may have been cut off.
//
// A string may contain ${NAME}, which is replaced by an environment variable. The
// reader replaces it after it has parsed the YAML, so the value of a variable
// cannot add keys. A [Secret] with the key x may be given as x_file, the path
// of a file with the secret.
//
// # Limits and threats
//
// Aliases can stand for at most 50,000 values, and values can be nested at most
// 100 levels deep in one line, so memory and stack are bounded for any input.
// Time is not bounded: the YAML parser needs quadratic time in the number of
// keys of one mapping, which is seconds for ten thousand keys.
//
// Diagnostics show the source line. They mask the values of secret keys, also
// of misspelled ones, password hashes, credentials in URLs, and every secret
// that was read, wherever it appears.
package strictyaml
