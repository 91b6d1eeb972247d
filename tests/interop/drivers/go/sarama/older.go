//go:build older

// Names of older versions (newer.go).
package main

import "github.com/IBM/sarama"

func rangeStrategy() sarama.BalanceStrategy { return sarama.BalanceStrategyRange }
