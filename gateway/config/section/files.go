package section

import (
	"time"

	"authgate/gateway/strictyaml"
)

// MaxPEM is how large a file with certificates or a key may be, in bytes.
const MaxPEM = 1 << 20

// Files reads the files that keys of the main file name.
type Files struct {
	Reader *strictyaml.Reader
	Main   *Report
	Now    time.Time // for which certificates must be valid
	// Made is the absolute path of the certificate of the gateway's own authority. The gateway makes that file at its
	// first start, so it may be missing before. Empty: there is none.
	Made string
}

// Read reads a file of at most limit bytes, which the key at path names.
func (s Files) Read(path, file string, limit int) (content []byte, ok bool) {
	content, err := s.Reader.ReadSide(path, file, limit)
	if err != nil {
		s.Main.Missing(path, "%v", err)
	}
	return content, err == nil
}
