package server

import "net/http"

// Windows of HTTP/2 and HTTP/3: how many bytes of requests a client may send that the
// gateway has not read yet. A stream's is small, so that uploads which applications do
// not read stop no other request on the connection, and take little memory. A browser has one
// connection for all hosts of a certificate, and a proxy in front puts many people on one.
const (
	streamWindow = 192 << 10
	// connectionWindow is the window of a connection over HTTP/2, the largest that net/http takes.
	connectionWindow = 4<<20 - 1
	// frameSize is the largest frame of HTTP/2, the least that is allowed (RFC 9113, section 4.2). One
	// that is larger than a window could never be sent.
	frameSize = 16 << 10
)

// windows returns the configuration of HTTP/2.
func windows() *http.HTTP2Config {
	return &http.HTTP2Config{
		MaxReceiveBufferPerStream: streamWindow, MaxReceiveBufferPerConnection: connectionWindow,
		MaxReadFrameSize: frameSize,
	}
}
