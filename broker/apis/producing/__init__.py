"""Produce: conversion before the queue, the appends, batches of transactions, and answers told together or in parts."""
