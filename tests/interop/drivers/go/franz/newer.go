//go:build !older

// Options that versions built with the tag `older` do not have (older.go).
package main

import "github.com/twmb/franz-go/pkg/kgo"

func serverSide() (kgo.Opt, error) { return kgo.ServerSideBalancer(), nil }
