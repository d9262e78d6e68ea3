package config

import "authgate/gateway/config/section"

// sideReader reads the files of the sections in this package.
type sideReader struct{ section.Files }
