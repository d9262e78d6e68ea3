// Package streams ends requests in flight whose login has ended.
//
// A [Set] has the requests that are open: long downloads, event streams,
// WebSockets, and each short request while it lasts. A timer runs while there
// are any. Each time it asks whether they may go on (see [Stream]), by the
// configuration that runs then, in memory as a rule. It asks once for all streams
// of a login that have the same credential and route, and only asks each if
// something has changed. The end of a login needs no message to streams, so it
// does not matter how, or on which instance, a login ends. [Set.CheckLogin] makes
// them end sooner on this instance.
//
// Streams whose client has gone end, too: over HTTP/1.1, net/http notices a client
// that leaves only until the client has sent the first byte of its next request.
//
// [Places] bounds how many WebSockets, tunnels and event streams are open, of one login and of all: they last, and
// would leave no room for other requests.
//
// # Limits
//
// A stream ends at most checkEvery and [EndingTime] after its login. If the
// store, or the issuer of a token, does not answer, a stream goes on for at most
// ten seconds. Streams that wait for the store do not delay the checks of others.
package streams
