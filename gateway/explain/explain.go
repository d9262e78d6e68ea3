// Package explain has the words of authgate explain and authgate test: a request that is described
// instead of sent, who makes it, and how the gateway treats it.
//
// It finds out which identities a described caller can prove, and makes the request that a server
// would receive. The gateway takes both on the way of a real request (gateway.Explainer), so that
// no second engine decides.
//
// # Limits and threats
//
// A description says who the caller is, and proves nothing: it has no credentials, and a header that
// holds one is a mistake. Nothing here is signed, and no file is touched.
package explain

import (
	"net/http"
	"net/netip"

	"authgate/policy"
)

// Request is a request that is described instead of sent.
type Request struct {
	Method string
	// URL is an https URL, or a path at the host of public_url. The path and the
	// query are taken byte for byte.
	URL string
	// Header has the other fields of the client, in any case: no credentials, and nothing about the
	// connection but Upgrade.
	Header http.Header
	// From is the address of the client. The zero Addr means 127.0.0.1.
	From netip.Addr
	// Verify makes a proxy ask about the request (forward authentication).
	Verify bool
	// MCPMethod and MCPName describe the message of a POST to an MCP server: its method, and the tool, the prompt
	// or the URI that it names. Both empty: one that no list of mcp refuses.
	MCPMethod, MCPName string
	// Caller makes the request. Nil means a request without credentials.
	Caller *Caller
}

// Result describes how the gateway treats a request.
type Result struct {
	Outcome    string // one of the outcomes below
	Status     int    // of the gateway's answer; 200 for a request that it lets through
	Route      string // its name, empty if there is none
	Upstream   string // of the route, also if the request does not get there
	Path       string // that the upstream gets, with the query; empty for a request that it does not get
	Reason     string // for operators
	Note       string // about the description; may be empty
	Mechanisms []policy.Mechanism
	Mechanism  policy.Mechanism // that proved the identity, empty if none is proved
	Conditions []policy.Condition
	// StepUp is the demand of a sign-in for the request to be let in; zero if that would not help,
	// or is not needed.
	StepUp policy.Demand
	// Header is the header for the upstream. For a request that a proxy asks about it is the
	// identity in the answer, and for a refused request it is nil.
	Header http.Header
}

// Outcomes of a Result. The first three are those of policy.Decision, and
// OutcomeForbid is also a request that another rule refuses with 403.
const (
	OutcomeAllow      = "allow"
	OutcomeChallenge  = "challenge"
	OutcomeForbid     = "forbid"
	OutcomeNotFound   = "not_found"   // no route, or a host that is not the gateway's
	OutcomeBadRequest = "bad_request" // malformed or ambiguous
)

// Allow notes in x that the gateway answers the request or lets it through.
func (x *Result) Allow(status int, reason string) {
	x.Outcome, x.Status, x.Reason = OutcomeAllow, status, reason
}
