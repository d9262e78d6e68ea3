package conn

import (
	"bytes"
	"fmt"
	"net/http"
)

// Inform sends an informational response to r, and reports whether it could: over HTTP/1.1, on the
// connection of a Set. It sends it in one piece. net/http has one buffer for such a response and for
// the 100 (Continue) that it sends while another goroutine reads the body, and no lock. For a
// status that it does not know, it also makes a reason phrase up.
func Inform(r *http.Request, status int, h http.Header) bool {
	c := carrierOf(r)
	if c == nil || c.conn == nil {
		return false
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %03d %s\r\n", status, http.StatusText(status))
	_ = h.Write(&b) // cannot fail
	b.WriteString("\r\n")
	_, _ = c.conn.Write(b.Bytes()) // if it fails, so does the answer
	return true
}
