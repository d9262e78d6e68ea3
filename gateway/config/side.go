package config

import (
	"time"

	"authgate/gateway/config/strictyaml"
)

// sideReader reads the files that keys of the main file name.
type sideReader struct {
	reader *strictyaml.Reader
	main   *report
	now    time.Time // for which certificates must be valid
}

// read reads a file of at most limit bytes, which the key at path names.
func (s sideReader) read(path, file string, limit int) (content []byte, ok bool) {
	content, err := s.reader.ReadSide(path, file, limit)
	if err != nil {
		s.main.Missing(path, "%v", err)
	}
	return content, err == nil
}
