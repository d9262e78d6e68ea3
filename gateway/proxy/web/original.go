package web

import (
	"errors"
	"net/http"
	"net/url"

	"authgate/gateway/config"
	"authgate/gateway/wire/peer"
)

// labelVerify is the label of a request to verify that leads to no route.
const labelVerify = "authgate/" + config.EndpointVerify

// asked is the request that a proxy asks about. It has no memory of its own, because that of an exchange serves
// many questions.
type asked struct {
	http.Request
	url url.URL
}

// TakeOriginal replaces a request to verify by the request that the proxy asks
// about. target is that of the request if the question repeats it, or empty. From here on
// the exchange takes the same way as one of a client, up to the answer.
func (ex *Exchange) TakeOriginal(target string) error {
	ex.Verify, ex.Label = true, labelVerify
	ex.asked.Request = *ex.Request
	r := &ex.asked.Request
	if r.ContentLength != 0 && r.ProtoMajor == 1 {
		ex.Header().Set("Connection", "close") // the server must not wait for the body
	}
	if !ex.Peer.Trusted {
		return &Error{
			Status: http.StatusForbidden, Detail: "Only a proxy that the gateway trusts may ask this.",
			Cause: errors.New("the request does not come from one of listen.trusted_proxies"),
		}
	}
	original, err := peer.Original{}, error(nil)
	if target != "" {
		original, err = peer.ReadExternal(r, target)
	} else {
		original, err = peer.ReadOriginal(r.Header)
	}
	if err != nil {
		return &Error{Status: http.StatusBadRequest, Detail: "The proxy does not describe the request in one meaning.",
			Cause: err}
	}
	if !original.Secure {
		return NotSecure("the original request came over http")
	}
	r.Method, r.Host, r.RequestURI = original.Method, original.Host, original.Target
	r.URL, r.Body, r.ContentLength, r.TransferEncoding, r.Trailer = &ex.asked.url, http.NoBody, 0, nil, nil
	if original.WebSocket {
		r.Header = r.Header.Clone()
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", "websocket")
	}
	ex.Request, ex.AuthRequest = r, original.AuthRequest
	ex.Peer.Proto, ex.Peer.Host = "https", original.Host
	return nil
}
