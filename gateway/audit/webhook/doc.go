// Package webhook sends audit events to receivers that the operator chooses, as Standard Webhooks 1.0
// has it: a POST of JSON with an id, a time and signatures.
//
// A [Sender] has a queue in memory for each receiver. Send puts an event there and returns. A goroutine
// sends the events that are due, one after the other in their order, and then ends; so without events
// there is none. An answer that takes long lets another goroutine go on with the next event. An event
// that fails is due again later. Close ends all of it.
//
// # Limits and threats
//
// A queue holds 1,000 events, with those that wait for another try; each further one is dropped. At most
// 16 requests are under way to a receiver. An answer is read up to 4 KiB, and no redirect is followed, so
// that a receiver cannot make the gateway call another address. The URL of a receiver is a secret, and so
// are its keys: the log has the host alone. The signature of an event proves that the gateway sent it, and
// when.
package webhook
