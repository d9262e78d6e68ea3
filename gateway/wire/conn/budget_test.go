package conn

import (
	"testing"
)

// Clients may have more connections than requests, and both halves fit into the
// file descriptors.
func TestDivide(t *testing.T) {
	t.Parallel()
	for _, files := range []int{64, 200, 256, 1024, 65536, 1 << 20} {
		b := Divide(files)
		if b.Requests >= b.Clients || b.Requests < 1 || 2*b.Clients > files-min(reserved, files/4) {
			t.Errorf("%d: %+v", files, b)
		}
	}
	if n := Files(); n < 64 {
		t.Errorf("%d file descriptors", n)
	}
}
