// Package endpoint is the table of the gateway's own endpoints.
//
// A [Row] says what the gateway does for one method of one endpoint, and by which
// rules: where it is served, who may ask, how fresh their sign-in must be.
// [Endpoint.Serve] keeps the rules, so that no endpoint forgets one. The rooms above
// fill the table.
//
// The package also has what these rooms share: [Options], who is asking, how
// fresh a sign-in must be, and how a body is read.
package endpoint
