package forward

import (
	"cmp"
	"net/http"

	"authgate/gateway/proxy/tracing"
)

// traced returns a transport that notes in the trace where it sends a request. It
// is the transport itself if nothing is recorded.
func traced(transport http.RoundTripper, trace *tracing.Trace) http.RoundTripper {
	if !trace.Recorded() {
		return transport
	}
	return noting{transport, trace}
}

// noting is a transport that notes where it sends a request.
type noting struct {
	http.RoundTripper
	trace *tracing.Trace
}

// RoundTrip implements http.RoundTripper.
func (n noting) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := n.RoundTripper.RoundTrip(r)
	n.trace.SentTo(r.URL.Scheme, r.URL.Host, cmp.Or(r.URL.Opaque, r.URL.RawPath)) // which the balancer has set
	return response, err
}
