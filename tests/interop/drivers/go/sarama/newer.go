//go:build !older

// Names that versions built with the tag `older` do not have (older.go).
package main

import "github.com/IBM/sarama"

func rangeStrategy() sarama.BalanceStrategy { return sarama.NewBalanceStrategyRange() }
